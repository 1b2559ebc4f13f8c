INSERT INTO timer (execution, name, due) VALUES (?, ?, ?)
ON CONFLICT (execution, name) DO UPDATE SET due = excluded.due

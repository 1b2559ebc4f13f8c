SELECT DISTINCT path FROM catalog
WHERE path >= ?1 AND substr(path, 1, length(?1)) = ?1 AND path > ?2
ORDER BY path LIMIT ?3

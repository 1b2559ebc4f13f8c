-- Every step writes and deletes a lease, and there are never more leases than slots: reading all of them costs less than
-- an index that every commit has to change.
DROP INDEX lease_by_worker;

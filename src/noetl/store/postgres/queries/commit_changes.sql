SELECT commit_changes(
    %s::bigint[], %s::uuid[], %s::bigint[],
    %s::uuid[], %s::bigint[], %s::text[], %s::float8[], %s::bytea[], %s::bytea[],
    %s::uuid[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::uuid[], %s::boolean[],
    %s::uuid[], %s::text[], %s::text[],
    %s::uuid[], %s::bigint[], %s::text[], %s::text[], %s::float8[], %s::float8[],
    %s::uuid[], %s::text[], %s::float8[],
    %s::uuid[], %s::bigint[], %s::bytea[], %s::bytea[],
    %s::text[], %s::bytea[], %s::uuid[], %s::text[], %s::text[], %s::text[],
    %s::bigint
)

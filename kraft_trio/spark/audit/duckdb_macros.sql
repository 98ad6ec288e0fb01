-- Functions of Spark that the checks use and DuckDB lacks.
create macro xxhash64(a, b) as hash(a, b), (a, b, c, d) as hash(a, b, c, d);
create macro only_in(keys, others) as list_filter(list_distinct(keys), lambda k: not list_contains(others, k));
-- See functions/changed_keys.sql.
create macro changed_keys(old, new) as list_concat(
    list_filter(
        only_in(old, new),
        lambda g: contains(g, '-') or not list_contains(list_transform(only_in(new, old), lambda c: split_part(c, '-', 1)), g)
    ),
    list_filter(only_in(new, old), lambda c: not list_contains(only_in(old, new), split_part(c, '-', 1)))
);
-- See functions/ints.sql.
create macro ints(text) as from_json(text, '["INTEGER"]');

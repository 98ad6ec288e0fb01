-- Replica keys ("id-directory id", or the id alone) that only one of two voter sets has.
-- A directory id that becomes known is not a change: that is the upgrade to kraft.version 1.
create or replace temporary function changed_keys(old array<string>, new array<string>) returns array<string>
return array_union(
    filter(array_except(old, new),
        g -> contains(g, '-') or not exists(array_except(new, old), c -> split_part(c, '-', 1) = g)),
    filter(array_except(new, old), c -> not array_contains(array_except(old, new), split_part(c, '-', 1)))
)

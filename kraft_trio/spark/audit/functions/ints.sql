-- The numbers of a JSON array.
create or replace temporary function ints(text string) returns array<int> return from_json(text, 'array<int>')

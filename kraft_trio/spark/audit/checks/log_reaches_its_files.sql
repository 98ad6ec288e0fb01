-- title: a log reaches what the names of the files beside it tell
-- reads: log_replicas
-- observes: log_replicas where index_offset is not null or producers_offset is not null
-- severity: error
-- a row: a log ends before a producer snapshot (`.snapshot`) was written, or the newest segment with an index is
-- missing. Nodes write these files behind the log, and remove them when they truncate it. A power failure may keep
-- them and lose the log's end.
select cluster, replica as subject,
    concat(directory, ': the log ends at offset ', greatest(coalesce(end, 0), coalesce(last_segment, 0))) as fact_a,
    concat(directory, ', ', lpad(string(producers_offset), 20, '0'), '.snapshot: written when it ended at offset ',
        producers_offset) as fact_b
from log_replicas
where error is null and producers_offset > greatest(coalesce(end, 0), coalesce(last_segment, 0))
union all
select cluster, replica,
    coalesce(concat(directory, ': the newest segment begins at offset ', last_segment),
        concat(directory, ': there is no segment')),
    concat(directory, ': there is an index of one that begins at offset ', index_offset)
from log_replicas
where error is null and index_offset > coalesce(last_segment, -1)
    and index_offset > coalesce(snapshot_end, -1)

-- title: every trace is readable to its end and has no gaps
-- reads: trace
-- observes: trace
-- severity: warning
-- a row: a file that is not a trace, is damaged, cut short, lacks its beginning, has gaps, or in which a node has
-- dropped events. The missing events were not checked. A complete file may still lack later events, for example after
-- a kill; nothing shows that.
select coalesce(run, file) as cluster, file as subject, concat('given is ', file) as fact_a, error as fact_b
from trace where error is not null
union all
select run, file, concat(file, ', event ', sequence, ': node ', node, ' has left out events'), details
from trace where kind = 'lost'
union all
-- The branches above report damaged records, and events that a node has dropped.
select run, file, concat(file, ': its events are numbered from ', first, ' to ', last),
    concat(untold, ' of them are not there')
from (
    select max(run) as run, file, min(sequence) as first, max(sequence) as last,
        max(sequence) - min(sequence) + 1 - count(distinct sequence) - count_if(error is not null)
            - coalesce(sum(if(kind = 'lost', try_cast(get_json_object(details, '$.events') as bigint), 0)), 0) as untold
    from trace group by file
) where untold > 0
union all
select run, file, concat('given is ', file), concat('its first event is the ', min(sequence) + 1, 'th of the run')
from trace where error is null group by run, file having min(sequence) > 0

-- title: every trace is readable to its end and has no gaps
-- reads: trace
-- observes: trace
-- severity: warning
-- a row: a file that is no trace, one that is damaged, cut short, without its beginning or with holes in its sequence, or
-- one in which a node has left out events: what is missing there was not looked at. What a trace that is whole up to its
-- last event may lack behind it, as after a kill, nothing tells.
select coalesce(run, file) as cluster, file as subject, concat('given is ', file) as fact_a, error as fact_b
from trace where error is not null
union all
select run, file, concat(file, ', event ', sequence, ': node ', node, ' has left out events'), details
from trace where kind = 'lost'
union all
-- What a damaged record was, and what a node says that it has left out, has been told.
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

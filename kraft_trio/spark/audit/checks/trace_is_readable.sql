-- title: every trace can be read to its end, and lacks nothing
-- reads: trace
-- observes: trace
-- severity: warning
-- a row: a file that is no trace, one that is damaged, cut short or without its beginning, or one in which a node has
-- left out events: what is missing there was not looked at.
select coalesce(run, file) as cluster, file as subject, concat('given is ', file) as fact_a, error as fact_b
from trace where error is not null
union all
select run, file, concat(file, ', event ', sequence, ': node ', node, ' has left out events'), details
from trace where kind = 'lost'
union all
select run, file, concat('given is ', file), concat('its first event is the ', min(sequence) + 1, 'th of the run')
from trace where error is null group by run, file having min(sequence) > 0

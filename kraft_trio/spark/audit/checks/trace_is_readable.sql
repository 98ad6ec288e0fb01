-- title: every trace can be read to its end, and lacks nothing
-- reads: trace
-- observes: trace
-- severity: warning
-- a row: a file that is no trace, one that is damaged or cut short, or one in which a node has left out events: what is
-- missing there was not looked at.
select coalesce(run, file) as cluster, file as subject, concat('given is ', file) as fact_a, error as fact_b
from trace where error is not null
union all
select run, file, concat(file, ', event ', sequence, ': node ', node, ' has left out events'), details
from trace where kind = 'lost'

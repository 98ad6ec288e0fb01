-- invariant: 9
-- title: only followers truncate, and never below the high watermark
-- reads: events
-- observes: events where kind = 'truncate'
-- severity: error
-- a row: a process truncated its log below its high watermark, or truncated while not a follower.
select run as cluster, replica as subject,
    concat(place, ': ', replica, ' is ', coalesce(role, 'nothing yet'), ' and its high watermark is ',
        coalesce(string(high_watermark), 'unknown')) as fact_a,
    concat(place, ': it truncates its log to offset ', `to`) as fact_b
from events where kind = 'truncate' and (`to` < high_watermark or not role <=> 'Follower')

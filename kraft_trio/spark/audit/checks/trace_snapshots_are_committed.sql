-- invariant: 18
-- title: logs are trimmed only below the high watermark, and a leader never loads a snapshot
-- reads: events
-- observes: events where kind in ('trim', 'replace')
-- severity: error
-- a row: a log was trimmed past the high watermark, or a snapshot replaced a leader's log.
select run as cluster, replica as subject,
    concat(place, ': ', replica, ' is ', coalesce(role, 'nothing yet'), ' and its high watermark is ',
        coalesce(string(high_watermark), 'unknown')) as fact_a,
    if(kind = 'trim', concat(place, ': its log is trimmed up to offset ', `to`),
        concat(place, ': a snapshot that ends at ', snapshot_end, ' takes the place of its log')) as fact_b
from events
where (kind = 'trim' and `to` > coalesce(high_watermark, 0)) or (kind = 'replace' and role = 'Leader')

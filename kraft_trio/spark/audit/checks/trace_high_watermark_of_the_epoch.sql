-- invariant: 10
-- title: a leader has no high watermark until a record of its own epoch is on a majority
-- reads: events
-- observes: events where kind = 'high_watermark'
-- severity: error
-- a row: a leader has a high watermark before the first record of its epoch, or a follower learns one in an epoch
-- before its leader has one.
with elected as (
    select run, epoch, node, min(log_end) as log_end, min_by(place, at) as place
    from events where kind = 'role' and role = 'Leader' and not was <=> 'Leader' group by all
),
first_marks as (
    select run, epoch, min(at) as at from events where kind = 'high_watermark' and role = 'Leader' group by all
)
select e.run as cluster, concat('epoch ', e.epoch) as subject,
    concat(l.place, ': ', e.replica, ' leads epoch ', e.epoch, ' with a log that ends at ', l.log_end) as fact_a,
    concat(e.place, ': its high watermark is ', e.high_watermark) as fact_b
from events e join elected l on l.run = e.run and l.epoch = e.epoch and l.node = e.node
where e.kind = 'high_watermark' and e.role = 'Leader' and e.high_watermark <= l.log_end
union all
select e.run, concat('epoch ', e.epoch),
    concat(e.place, ': ', e.replica, ' is ', e.role, ' in epoch ', e.epoch, ' and learns high watermark ',
        e.high_watermark),
    concat('no leader has one in epoch ', e.epoch, ' by then')
from events e left join first_marks f on f.run = e.run and f.epoch = e.epoch
where e.kind = 'high_watermark' and e.role <> 'Leader' and e.all_seen and (f.at is null or f.at > e.at)
    and not exists (
        select * from events r
        where r.run = e.run and r.node = e.node and r.kind = 'replace' and r.snapshot_end = e.high_watermark
    )

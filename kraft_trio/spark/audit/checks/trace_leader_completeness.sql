-- invariant: 7
-- title: a leader's log has every record committed in lower epochs
-- reads: events
-- observes: events where kind = 'role' and role = 'Leader'
-- severity: error
-- a row: a leader was elected with a log that ends before the high watermark of a leader of a lower epoch.
with committed as (
    select run, epoch, max(struct(high_watermark, place)) as highest
    from events where kind = 'high_watermark' and role = 'Leader' group by all
),
elected as (
    select * from events where kind = 'role' and role = 'Leader' and not was <=> 'Leader'
)
select e.run as cluster, concat('epoch ', e.epoch) as subject,
    concat(c.highest.place, ': the leader of epoch ', c.epoch, ' has committed up to offset ', c.highest.high_watermark)
        as fact_a,
    concat(e.place, ': ', e.replica, ' leads epoch ', e.epoch, ' with a log that ends at ', e.log_end) as fact_b
from elected e join committed c on c.run = e.run and c.epoch < e.epoch and c.highest.high_watermark > e.log_end

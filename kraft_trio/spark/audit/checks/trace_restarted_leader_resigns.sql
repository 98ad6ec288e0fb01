-- invariant: 4
-- title: a restarted leader never leads its old epoch again
-- reads: events
-- observes: events where kind = 'role' and was is null
-- severity: error
-- a row: a replica's process starts in a role other than Resigned in an epoch that an earlier process led.
with led as (
    select run, replica, epoch, min(process) as process, min_by(place, at) as place
    from events where kind = 'role' and role = 'Leader' group by all
)
select e.run as cluster, concat(e.replica, ', epoch ', e.epoch) as subject,
    concat(led.place, ': ', e.replica, ' leads epoch ', e.epoch) as fact_a,
    concat(e.place, ': a later process of it is ', e.role, ' in that epoch') as fact_b
from events e join led on led.run = e.run and led.replica = e.replica and led.epoch = e.epoch
where e.kind = 'role' and e.process > led.process and (e.role = 'Leader' or (e.was is null and e.role <> 'Resigned'))

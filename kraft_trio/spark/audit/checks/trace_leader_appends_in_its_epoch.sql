-- invariant: 6
-- title: a leader appends only in its own epoch, and otherwise only followers append
-- reads: events
-- observes: events where kind = 'append'
-- severity: error
-- a row: a leader appended records of another epoch, a node that is neither leader nor follower appended, or a
-- follower appended records of an epoch above its own.
select run as cluster, replica as subject,
    concat(place, ': ', replica, ' is ', coalesce(role, 'nothing yet'), ' in epoch ', coalesce(string(epoch), 'unknown'))
        as fact_a,
    concat(place, ': it appends records of epoch ', record_epoch, ' at offsets ', base_offset, ' to ', next_offset - 1)
        as fact_b
from events
where kind = 'append' and not coalesce(
    (role = 'Leader' and record_epoch = epoch) or (role = 'Follower' and record_epoch <= epoch), false)

-- invariant: 17
-- title: roles change only along the transition table
-- reads: events, transitions, first_roles
-- observes: events where kind = 'role' and unbroken
-- severity: error
-- a row: a node took a role that the table does not allow, or a process began with a role that none begins with.
-- Files with missing events are ignored.
with roles as (
    select *, lag(struct(role, epoch, leader, place)) over (partition by run, node, file, process order by at) as old
    from events where kind = 'role' and unbroken
)
select run as cluster, replica as subject,
    coalesce(
        concat(old.place, ': ', replica, ' is ', old.role, ' in epoch ', old.epoch),
        concat('process ', process, ' of ', replica, ' begins')
    ) as fact_a,
    concat(place, ': it is ', role, ' in epoch ', epoch) as fact_b
from roles r
where (was is null and role not in (select role from first_roles))
    or (old is not null and not (old.role = role and old.epoch = epoch and old.leader <=> leader)
        and not exists (
            select * from transitions t
            where t.old_role = r.old.role and t.new_role = r.role and (
                (t.epochs = 'SAME' and r.epoch = r.old.epoch) or (t.epochs = 'NEXT' and r.epoch = r.old.epoch + 1)
                or (t.epochs = 'HIGHER' and r.epoch > r.old.epoch)
                or (t.epochs = 'SAME_OR_HIGHER' and r.epoch >= r.old.epoch))
        ))
    or (old.epoch = epoch and old.leader <> leader)

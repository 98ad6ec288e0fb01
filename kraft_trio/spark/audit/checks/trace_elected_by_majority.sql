-- invariant: 22
-- title: a leader has the votes of a majority of its voter set, by id and directory id
-- reads: voters_at_work, events
-- observes: voters_at_work where all_seen and kind = 'role' and role = 'Leader'
-- severity: error
-- a row: a node leads an epoch in which fewer than a majority of its newest voter set logged a vote for it.
with elected as (
    select * from voters_at_work where kind = 'role' and role = 'Leader' and all_seen and not was <=> 'Leader'
),
votes as (
    select run, vote_epoch as epoch, split_part(candidate, '-', 1) as candidate, at,
        explode(array(replica, cast(node as string))) as who
    from events where kind = 'log' and granted and not pre_vote
    union all
    select run, epoch, cast(node as string), at, explode(array(replica, cast(node as string)))
    from events where kind = 'role' and role = 'Candidate'
),
granted as (
    select e.run, e.at, collect_set(v.who) as voters
    from elected e
    join votes v
        on v.run = e.run and v.epoch = e.epoch and v.candidate = cast(e.node as string) and v.at < e.at
        and array_contains(e.newest, v.who)
    group by all
)
select e.run as cluster, concat('epoch ', e.epoch) as subject,
    concat(e.place, ': ', e.replica, ' leads epoch ', e.epoch, ', its voters are ', array_join(e.newest, ', '))
        as fact_a,
    concat('before that only {', array_join(array_sort(coalesce(g.voters, array())), ', '),
        '} of them had voted for it') as fact_b
from elected e left join granted g on g.run = e.run and g.at = e.at
where size(e.newest) > 0 and 2 * size(coalesce(g.voters, array())) <= size(e.newest)

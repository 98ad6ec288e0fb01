-- invariant: 3
-- title: each replica votes at most once per epoch, even across restarts
-- reads: events
-- observes: events where (kind = 'log' and granted and not pre_vote) or (kind = 'role' and role = 'Candidate')
-- severity: error
-- a row: a replica voted for two candidates in one epoch. A candidate votes for itself.
with votes as (
    select run, replica, vote_epoch as epoch, candidate, at, place from events
    where kind = 'log' and granted and not pre_vote
    union all
    select run, replica, epoch, replica, at, place from events where kind = 'role' and role in ('Candidate', 'Leader')
),
firsts as (
    select run, replica, epoch, candidate, min_by(place, at) as place, min(at) as at from votes group by all
)
select a.run as cluster, concat(a.replica, ', epoch ', a.epoch) as subject,
    concat(a.place, ': ', a.replica, ' votes for ', a.candidate, ' in epoch ', a.epoch) as fact_a,
    concat(b.place, ': it votes for ', b.candidate, ' in the same epoch') as fact_b
from firsts a join firsts b on a.run = b.run and a.replica = b.replica and a.epoch = b.epoch and a.at < b.at
    and a.candidate <> b.candidate
    and (split_part(a.candidate, '-', 1) <> split_part(b.candidate, '-', 1)
        or (contains(a.candidate, '-') and contains(b.candidate, '-')))

-- invariant: 11
-- title: a majority of the voters holds what a snapshot covers
-- reads: log_snapshots, log_spans, log_replicas, log_newest_voters
-- observes: log_snapshots where valid and end_offset > 0
-- severity: error
-- a row: the newest snapshot of a cluster, whose log continues it, covers records that no majority of the voters can
-- have: too many of their directories end before it. Nodes write snapshots of committed records only. Started from
-- these directories, the cluster may lose them. Voters without a directory count as having everything.
with proven as (
    select s.cluster, max_by(struct(s.end_offset, s.voters, s.place), struct(s.end_offset, s.place)) as newest
    from log_snapshots s join log_spans l
        on l.cluster = s.cluster and l.directory = s.directory and l.whole_end >= s.end_offset
    where s.valid and s.end_offset > 0 group by s.cluster
),
named as (
    select cluster, collect_list(voter) as voters from log_newest_voters group by cluster
),
sets as (
    select p.cluster, p.newest.end_offset, p.newest.place,
        if(size(p.newest.voters) > 0, p.newest.voters, t.voters) as voters
    from proven p left join named t on t.cluster = p.cluster
),
asked as (
    select s.cluster, s.end_offset, s.place, size(s.voters) as voters, v.voter
    from sets s lateral view explode(s.voters) v as voter
),
ends as (
    select a.cluster, a.end_offset, a.place, a.voters, a.voter, max(coalesce(r.end, 0)) as end,
        max_by(r.directory, struct(coalesce(r.end, 0), r.directory)) as directory
    from asked a join log_replicas r
        on r.cluster = a.cluster and a.voter in (r.replica, cast(r.node as string)) and r.error is null
    group by a.cluster, a.end_offset, a.place, a.voters, a.voter
),
lacking as (
    select cluster, end_offset, place, voters, count(*) as count,
        array_join(array_sort(collect_list(concat(directory, ' (', end, ')'))), ', ') as directories
    from ends where end < end_offset group by cluster, end_offset, place, voters
)
select cluster, concat('offset ', end_offset) as subject,
    concat(place, ': a snapshot of all below offset ', end_offset, ', which ', voters, ' voters have committed') as fact_a,
    concat('of ', count, ' of them, the directories end before it: ', directories) as fact_b
from lacking where 2 * (voters - count) <= voters

-- title: as many voters have a directory as are expected
-- reads: log_replicas, log_newest_voters
-- observes: log_replicas
-- severity: error
-- a row: of the newest voter set, fewer voters than --expect-voters have a readable directory. Where no log names the
-- voters, every replica counts. Without the option, any number will do.
with known as (
    select distinct cluster from log_newest_voters
),
counted as (
    select r.cluster, max(r.expect_voters) as expected,
        count(distinct if(r.error is null and (r.is_voter or k.cluster is null), r.replica, null)) as given,
        nullif(array_join(array_sort(collect_set(if(r.error is null and r.is_voter, r.directory, null))), ', '), '')
            as directories
    from log_replicas r left join known k on k.cluster = r.cluster group by r.cluster
)
select cluster, 'the voters' as subject, concat(expected, ' voters are expected') as fact_a,
    concat(given, ' have a directory: ', coalesce(directories, 'none')) as fact_b
from counted where given < expected

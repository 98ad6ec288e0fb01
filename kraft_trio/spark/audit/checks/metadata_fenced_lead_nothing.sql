-- title: a broker that is fenced leads no partition
-- reads: metadata_partitions, metadata_brokers
-- observes: metadata_partitions where leader >= 0
-- severity: warning
-- a row: a record makes a broker the leader that is fenced or not registered, or fences or removes one that leads. A
-- controller moves the leadership first. A broker that registers anew before its old session has ended is fenced and may
-- lead on, and a leader in controlled shutdown is not fenced. With ELR, Kafka may elect the last known leader, though it
-- is fenced. What several replicas have is told once.
with led as (
    select *, lead(at) over (partition by cluster, directory, key order by at) as until
    from metadata_partitions where is_chosen
)
select cluster, subject, min(fact_a) as fact_a, min(fact_b) as fact_b from (
    select p.cluster, concat('partition ', p.key, ', offset ', greatest(p.at, b.at)) as subject,
        concat(p.place, ': the leader of ', p.key, ' is ', p.leader) as fact_a,
        concat(b.place, ': broker ', b.key, ' ', b.state) as fact_b
    from led p join metadata_brokers b
        on b.cluster = p.cluster and b.directory = p.directory and b.key = cast(p.leader as string)
    where p.leader >= 0 and b.is_fenced and (
        (p.at > b.at and (b.until is null or p.at < b.until))
        or (b.at > p.at and b.is_told and (p.until is null or b.at < p.until))
    )
    union all
    select p.cluster, concat('partition ', p.key, ', offset ', p.at),
        concat(p.place, ': the leader of ', p.key, ' is ', p.leader),
        concat(p.directory, ': broker ', p.leader, ' is registered ', coalesce(concat('at offset ', b.at), 'never'))
    from led p left join (
        select cluster, directory, key, min(at) as at from metadata_brokers group by cluster, directory, key
    ) b on b.cluster = p.cluster and b.directory = p.directory and b.key = cast(p.leader as string)
    where p.leader >= 0 and (b.at is null or b.at > p.at)
)
group by cluster, subject

-- reads: metadata_transactions
-- stored: no
-- One row per transaction of metadata, from `first` to `last`, the offset of its end or abort, which `outcome` names.
-- Both are null while it is open.
with steps as (
    select coalesce(cluster_id, 'unknown') as cluster, directory, offset as first, type,
        lead(offset) over (partition by cluster_id, directory order by offset) as last,
        lead(type) over (partition by cluster_id, directory order by offset) as outcome
    from metadata_transactions where error is null
)
select cluster, directory, first, last, outcome from steps where type = 'begin'

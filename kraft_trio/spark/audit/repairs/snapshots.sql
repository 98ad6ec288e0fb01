-- reads: log_snapshots
-- One row per damaged snapshot and replica that has the same one whole.
select d.cluster, d.directory, d.place, d.end_offset, d.epoch, s.directory as holder, s.content_sha256 as content
from log_snapshots d join log_snapshots s
    on s.cluster = d.cluster and s.end_offset = d.end_offset and s.epoch = d.epoch and s.directory <> d.directory
where not coalesce(d.valid, false) and s.valid

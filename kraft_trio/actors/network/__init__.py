"""The node's listeners: connections, admission, and one file of requests for each subject.

`NetworkServer` owns the accepted connections; `RequestRouter` passes each request on and owns no state of the quorum.
Doors: `NetworkServer`, `RequestRouter`.
"""

-- The queue of a run, and what became of every item. Times are seconds since 1970 UTC.
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    -- A fingerprint of what the item is found again by: a URL may carry a credential, which is not persisted.
    key_hash BLOB NOT NULL UNIQUE,
    work_id TEXT NOT NULL,
    source TEXT NOT NULL,
    line INTEGER NOT NULL,
    -- The line has to be read again to know the item: what is persisted here is not all of it.
    hidden INTEGER NOT NULL DEFAULT 0,
    -- The input was written by others: its URLs do not lead into the private network. NULL if an earlier version queued the item.
    untrusted INTEGER,
    -- queued, leased, done, failed
    state TEXT NOT NULL,
    -- start, missing-input, site:ROLE:SITE, source:NAME, landing:PREFIX
    lane TEXT NOT NULL,
    -- When a deferred item is due; 0 for others.
    not_before REAL NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    -- The state of the item between two steps, as JSON of its job.
    progress TEXT,
    reason TEXT,
    detail TEXT,
    updated_at REAL NOT NULL
);
CREATE INDEX items_to_do ON items (state, lane, id);
CREATE INDEX items_later ON items (not_before) WHERE state = 'queued' AND not_before > 0;
-- URLs that gave a file, so that no file is fetched twice.
CREATE TABLE urls (canonical TEXT PRIMARY KEY, item INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    timestamp REAL NOT NULL,
    run_id TEXT NOT NULL,
    work_id TEXT NOT NULL,
    resolver_name TEXT NOT NULL,
    url TEXT,
    status TEXT NOT NULL,
    http_status INTEGER,
    reason TEXT,
    payload TEXT NOT NULL
);
CREATE TABLE manifests (
    id INTEGER PRIMARY KEY,
    timestamp REAL NOT NULL,
    run_id TEXT NOT NULL,
    item INTEGER NOT NULL,
    work_id TEXT NOT NULL,
    classification TEXT NOT NULL,
    reason TEXT,
    url TEXT,
    path TEXT,
    sha256 TEXT,
    content_length INTEGER,
    payload TEXT NOT NULL
);
CREATE INDEX manifests_by_work ON manifests (work_id);
CREATE INDEX manifests_by_item ON manifests (item);
CREATE TABLE summaries (run_id TEXT PRIMARY KEY, timestamp REAL NOT NULL, payload TEXT NOT NULL);
-- How far queries have been read, and with the key inputs that there are inputs which have not been read to their end.
CREATE TABLE cursors (query TEXT PRIMARY KEY, cursor TEXT, page INTEGER NOT NULL, found INTEGER NOT NULL);
-- What later runs in the directory need to know of earlier ones: the options of the job, the database of the latest run.
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

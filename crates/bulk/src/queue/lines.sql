-- The inputs that lines were read from, in the order in which they were first read.
CREATE TABLE sources (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
-- Every line of the inputs, as last read: its item, or why it names none. Works that share a line have parts.
CREATE TABLE lines (
    source INTEGER NOT NULL,
    line INTEGER NOT NULL,
    part INTEGER NOT NULL,
    item INTEGER,
    text TEXT NOT NULL,
    problem TEXT,
    read_at REAL NOT NULL,
    PRIMARY KEY (source, line, part)
) WITHOUT ROWID;
-- What sources said about an item, as JSON of its job.
CREATE TABLE metadata (
    item INTEGER NOT NULL,
    source TEXT NOT NULL,
    timestamp REAL NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (item, source)
) WITHOUT ROWID;

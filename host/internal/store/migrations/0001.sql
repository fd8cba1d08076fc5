CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE plugins (
  plugin        TEXT PRIMARY KEY,
  generation    INTEGER NOT NULL DEFAULT 0, -- last one given out
  fence         INTEGER NOT NULL DEFAULT 0, -- writers below it are refused
  state_version INTEGER NOT NULL DEFAULT 0, -- last version given to a value
  state_bytes   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE state (
  plugin  TEXT NOT NULL,
  key     TEXT NOT NULL,
  value   BLOB NOT NULL,
  secret  INTEGER NOT NULL,
  size    INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (plugin, key)
);

CREATE TABLE describes (
  sha256 TEXT PRIMARY KEY,
  answer BLOB NOT NULL,
  at     INTEGER NOT NULL
);

CREATE TABLE handles (
  handle    TEXT PRIMARY KEY,
  plugin    TEXT NOT NULL,
  agent     TEXT NOT NULL,
  session   TEXT NOT NULL,
  namespace TEXT NOT NULL,
  profile   TEXT NOT NULL,
  derived   INTEGER NOT NULL,
  expires   INTEGER NOT NULL DEFAULT 0,
  last_used INTEGER NOT NULL
);
CREATE INDEX handles_session ON handles (plugin, agent, session);
CREATE INDEX handles_used ON handles (last_used) WHERE derived = 0;

CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  agent      TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_used  INTEGER NOT NULL,
  data       BLOB
);
CREATE INDEX sessions_used ON sessions (last_used);

CREATE TABLE inbox (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  session  TEXT NOT NULL,
  agent    TEXT NOT NULL,
  kind     TEXT NOT NULL,
  text     TEXT NOT NULL,
  data     BLOB,
  dedup_id TEXT NOT NULL,
  at       INTEGER NOT NULL
);
CREATE INDEX inbox_session ON inbox (session, seq);
CREATE UNIQUE INDEX inbox_dedup ON inbox (session, dedup_id) WHERE dedup_id <> '';

CREATE TABLE frozen (
  id         TEXT PRIMARY KEY,
  agent      TEXT NOT NULL,
  session    TEXT NOT NULL,
  run        TEXT NOT NULL,
  model_tier TEXT NOT NULL,
  tool       TEXT NOT NULL,
  plugin     TEXT NOT NULL,
  args_hash  TEXT NOT NULL,
  arguments  BLOB,
  state      BLOB,
  round      INTEGER NOT NULL,
  status     TEXT NOT NULL,
  chain      TEXT NOT NULL,
  result     BLOB,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE INDEX frozen_match ON frozen (agent, session, tool, args_hash);
CREATE INDEX frozen_status ON frozen (status, expires_at);

CREATE TABLE questions (
  id          TEXT PRIMARY KEY,
  call_id     TEXT NOT NULL,
  request_id  TEXT NOT NULL,
  kind        TEXT NOT NULL,
  agent       TEXT NOT NULL,
  session     TEXT NOT NULL,
  tool        TEXT NOT NULL,
  plugin      TEXT NOT NULL,
  message     TEXT NOT NULL,
  schema      BLOB,
  url         TEXT NOT NULL,
  model_request BLOB,
  audience    TEXT NOT NULL,
  no_fallback INTEGER NOT NULL,
  decision    INTEGER NOT NULL,
  caller_gone INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  outcome     TEXT NOT NULL DEFAULT '',
  content     BLOB,
  answered_by TEXT NOT NULL DEFAULT '',
  answered_at INTEGER NOT NULL DEFAULT 0,
  reason      TEXT NOT NULL DEFAULT ''
);
CREATE INDEX questions_call ON questions (call_id);
CREATE INDEX questions_open ON questions (expires_at) WHERE outcome = '';

CREATE TABLE audit (
  seq            INTEGER PRIMARY KEY,
  at             INTEGER NOT NULL,
  call_id        TEXT NOT NULL,
  parent_call_id TEXT NOT NULL,
  agent          TEXT NOT NULL,
  session        TEXT NOT NULL,
  tool           TEXT NOT NULL,
  plugin         TEXT NOT NULL,
  tier           TEXT NOT NULL,
  door           TEXT NOT NULL,
  status         TEXT NOT NULL,
  ref            TEXT NOT NULL,
  duration_ms    INTEGER NOT NULL,
  args_hash      TEXT NOT NULL,
  args_bytes     INTEGER NOT NULL,
  result_bytes   INTEGER NOT NULL,
  arguments      BLOB,
  result         BLOB,
  note           TEXT NOT NULL,
  prev_hash      BLOB NOT NULL,
  hash           BLOB NOT NULL
);

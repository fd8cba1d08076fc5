package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations in their order; the schema version is how many have run.
var migrations = []string{"migrations/0001.sql"}

// applicationID tells this program's files from other SQLite databases.
const applicationID = 0x424c4b48 // "BLKH"

// quickCheckLimit is the largest file, in pages, that is checked whole at start.
const quickCheckLimit = 32768

// inspect reads a database without changing it and gives its schema version.
func inspect(ctx context.Context, db *sql.DB, path string) (int, error) {
	var version, id, tables, pages int
	row := db.QueryRowContext(ctx, `SELECT
		(SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema),
		(SELECT page_count FROM pragma_page_count)`)
	if err := row.Scan(&version, &id, &tables, &pages); err != nil {
		return 0, err
	}
	switch {
	case tables > 0 && id != applicationID:
		return 0, fault.New(fault.StoreUnreadable, "%s is the database of another program; move it away", path)
	case version > len(migrations):
		return 0, fault.New(fault.StoreUnreadable, "%s was written by a newer version (schema %d, this one knows %d); update the host, or use another data_dir", path, version, len(migrations))
	}
	if pages > 0 && pages <= quickCheckLimit {
		var verdict string
		if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
			return 0, err
		}
		if verdict != "ok" {
			return 0, corrupt{verdict}
		}
	}
	return version, nil
}

// migrate runs what is missing, all in one transaction.
func migrate(ctx context.Context, db *sql.DB, version int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for n := version; n < len(migrations); n++ {
		script, err := migrationFiles.ReadFile(migrations[n])
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("schema %d: %w", n+1, err)
		}
	}
	if version < len(migrations) {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, len(migrations))); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// corrupt is a failed check of the file.
type corrupt struct{ verdict string }

func (c corrupt) Error() string { return c.verdict }

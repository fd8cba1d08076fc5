# Shortens `go test -v ./...`: a package that passes is its line and what it skipped,
# with the reasons; one that fails is shown whole, and fails this too.
/^=== (RUN|NAME|CONT) /            { test = $3 }
/^ +[a-z0-9_]+\.go:[0-9]+: / { said[test] = $0; sub(/^ +/, "", said[test]) }
/^ *--- SKIP: /                   { skipped = skipped "skip\t" $3 "\t" said[$3] "\n" }
{ held = held $0 "\n" }
/^FAIL/                           { failed = 1 }
/^(ok  |FAIL|\?   )/ {
	printf "%s", /^FAIL/ ? held : skipped $0 "\n"
	fflush()
	held = skipped = ""; packages++
	split("", said)
}
END {
	printf "%s", held
	exit failed || !packages || held ~ /panic:/
}

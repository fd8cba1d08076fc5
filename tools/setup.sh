#!/bin/sh
# Puts in place what the tests need beside Go: the npm inspector, an MCP client
# written by others, the MCP conformance suite, a Node new enough for both, a
# browser, and two programs that results are held against.
set -eu
cd "$(dirname "$0")/npm"
if ! command -v npm >/dev/null 2>&1; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		apt-get update -qq && apt-get install -y -qq nodejs npm >/dev/null
	else
		echo "the tests need npm; install it with: sudo apt-get install nodejs npm" >&2
		exit 1
	fi
fi
# The browser's tests skip without it, and say so.
if ! command -v chromium >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	apt-get update -qq && apt-get install -y -qq chromium >/dev/null 2>&1 || echo "chromium could not be installed" >&2
fi
# So do those that read what a model is shown, compare searching with ripgrep, and run
# scripts in other sandboxes.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	for program in tesseract:tesseract-ocr rg:ripgrep /usr/bin/python3:python3 /usr/bin/pip3:python3-pip podman:podman runc:runc bwrap:bubblewrap; do
		command -v "${program%%:*}" >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends "${program#*:}" >/dev/null 2>&1 || echo "${program#*:} could not be installed" >&2
	done
fi
[ -f node_modules/.done ] && cmp -s package-lock.json node_modules/.done && exit 0
npm install --no-save --no-audit --no-fund --loglevel=error
cp package-lock.json node_modules/.done

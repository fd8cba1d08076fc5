package web

import (
	"regexp"
	"strings"
	"time"

	readability "codeberg.org/readeck/go-readability/v2"
)

var by = regexp.MustCompile(`(?i)^(by|von|par|por|di|door|av|af|od|автор:?|作者:?|文:?)\s+`)

// about tells who wrote a page and when, as far as the page says.
func about(a readability.Article) string {
	var parts []string
	if who := by.ReplaceAllString(oneLine(a.Byline()), ""); who != "" && len(who) <= 150 && !strings.Contains(who, "://") {
		parts = append(parts, "By "+who)
	}
	if when, err := a.PublishedTime(); err == nil && when.Year() > 1990 && when.Before(time.Now().AddDate(1, 0, 0)) {
		parts = append(parts, when.Format(time.DateOnly))
	}
	return strings.Join(parts, ", ")
}

// Package rank finds tools by words. An exact name comes first, then names that
// hold the words, then descriptions; rare words count for more, and an entry that
// leaves most of a query unanswered is no match at all.
package rank

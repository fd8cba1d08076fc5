// Package calendar writes upcoming fires as iCalendar (RFC 5545), each as an event
// of its own: what comes of a cron expression, a jitter or an end no recurrence rule
// says as exactly.
package calendar

// Package bridge is the plugin: MCP servers of the operator, and those an agent
// registered, offered as tools, prompts and resources.
//
// Every server has one owner goroutine (server.run), which alone connects,
// refreshes and gives up. What it finds is a link: a connection and an immutable
// view of what the server offers. Calls lease the link for as long as they run, so
// that a reconnect never takes a connection from under them. A call that finds no
// link wakes the owner and waits for its next attempt.
//
// Management tools look at the views and call the typed tools by way of the host,
// so that every call passes its policy under the name it stands for.
package bridge

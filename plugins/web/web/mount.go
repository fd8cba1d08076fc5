package web

import (
	"regexp"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// mounts are the ids of the elements that front-end frameworks fill.
var mounts = map[string]bool{"root": true, "app": true, "react-root": true, "react-app": true, "react-target": true, "app-root": true, "main-app": true,
	"__next": true, "__nuxt": true, "___gatsby": true, "svelte": true, "application": true, "mount": true}

// unsupported is what pages say beside such an element to a browser that can't fill it.
var unsupported = regexp.MustCompile(`(?i)(browser|browsers) ((you are using|version) )?(is|are|isn.t|aren.t) (not |no longer |currently )*(un)?(supported|outdated|out of date)|(unsupported|outdated|supported|modern) (web )?browser|(update|upgrade) (to )?(your|a newer|a modern) (web )?browser|browser (wird|ist) (leider )?(nicht|veraltet)|navigateur (n.est (pas|plus)|est obsol)|navegador (no (es|está)|não é)|browser non (è )?support|браузер (не поддерж|устарел)|浏览器(版本)?(过低|不支持)|ブラウザ.{0,20}(サポート|対応)`)

// waiting is how a page waits for its scripts.
type waiting int

const (
	filled waiting = iota
	empty          // it has an element to be filled that is empty
	said           // and says that it needs scripts for that
)

// waitsForScripts looks at a page as it came.
func waitsForScripts(root *html.Node) waiting {
	mount := find(root, func(n *html.Node) bool {
		return n.Type == html.ElementNode && mounts[attr(n, "id")] && textUpTo(n, 10) == "" && find(n, func(d *html.Node) bool { return d.DataAtom == atom.Img }) == nil
	})
	if mount == nil {
		return filled
	}
	for n := range root.Descendants() {
		if n.DataAtom != atom.Noscript {
			continue
		}
		for d := range n.Descendants() {
			if d.Type == html.TextNode && len(d.Data) <= consentText && challenge.MatchString(d.Data) {
				return said
			}
		}
	}
	return empty
}

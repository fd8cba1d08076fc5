package web

import (
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// furniture are classes and ids, by their words, of what stands in an article and
// is none of it.
var furniture = regexp.MustCompile(`(?i)(^|[\s_-])(share|sharing|social|related|recirc|recommended|newsletter|sign-?up|subscribe|promo|teaser|byline|by-line|dateline|timestamp|post-?date|publish(ed)?-?(date|time)|date-?published|pub-?date|author-?(bio|box|info|card|name)?|about-?(the-?)?author|bio|breadcrumbs?|bread-?crumbs?|entry-meta|post-meta|article-meta|article-(date|time|info|header-meta)|taboola|outbrain|disqus|comments?|read-?more|more-?(on|from|stories)|trending|most-?(read|popular)|tags?-?(list|cloud)?|advert(isement)?|ad-?(slot|unit|container|wrapper)|video-?player|jwplayer|media-?player|gallery-?(nav|controls)|print-?only|copyright|disclaimer|pagination|rate|rating-?widget|kicker|eyebrow|toolbar|skip)([\s_-]|$)`)

// captions are classes of the line below a picture.
var captions = regexp.MustCompile(`(?i)((^|[\s_-])(wp-caption(-text|-dd)?|(image|img|photo|picture|media|figure|gallery|video|asset|slide)[\s_-]*(caption|credit|source|copyright|description|attribution|byline)s?|captions?(-text)?|photo-?credits?|credits?|photographer)([\s_-]|$)|figcaption|imagecaption|mediacaption|captiontext)`)

// teasers begin blocks that lead away from the article or ask for something, in
// the larger languages of the web.
var teasers = regexp.MustCompile(`(?i)^\W*(` + strings.Join([]string{
	`(read|see|watch|learn|click for) more\b`, `also (read|see|on)\b`, `related( (articles?|stor(y|ies)|posts?|content|coverage|links?))?\s*(:|$)`, `don['’]?t miss\b`,
	`(more|latest|read more|read next|next) (from|on|in|news|stories|coverage)\b.{0,80}$`, `(continue|keep) reading( below)?$`, `story continues( below)?`, `scroll (down )?(for|to)`,
	`(click|tap) here (to|for)\b`, `sign[ -]?up (for|to|now|today|here)\b`, `subscribe( (to|now|today|here|for)\b|$)`, `get (the|our) [\w ]{0,40}(app|newsletter)\b`, `(join|follow) (us|our)\b`, `like this (story|article|post)`, `share (this|it|on|with)\b`,
	`(want|need|looking for) (to read )?more\b`, `if you (enjoyed|liked) this\b`,
	`(post|leave|add|view|read|show|hide|write) (a |all |the |your )?(comments?|reply)`, `comments?( are closed| \(?\d+\)?|$)`, `tell us what you think`, `advert(isement|s)?$`, `sponsored( content)?$`, `promoted( stories)?$`, `(all rights reserved|copyright|©|\(c\) \d)`,
	`media playback is (not supported|unsupported)`, `(your|this) browser does not support`, `please enable javascript`, `about the author`, `first published`, `(re-?)?published( on| at|:| \d).{0,60}$`, `(last )?updated( on| at|:| \d| \w+ \d).{0,60}$`, `posted( on| by|:).{0,60}$`, `filed under`, `tags?:`, `topics?:`, `categor(y|ies):`,
	`(get|order) .{0,60}(delivered|subscription)\b`, `we['’]re (on|also on) (facebook|twitter|instagram)`, `(\S+ )?may earn an? (affiliate )?commission`, `we (and partners )?may (be compensated|earn)`,
	// German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian, Swedish, Turkish, Chinese, Japanese, Korean
	`(lesen sie (auch|mehr)|mehr zum thema|auch interessant|das könnte (sie|dich)|weiterlesen|zum weiterlesen|newsletter abonnieren|jetzt (abonnieren|anmelden)|anzeige$|kommentare?$|teilen$)`,
	`(lire (aussi|la suite|plus)|à lire( aussi)?|voir aussi|sur le même sujet|abonnez-vous|inscrivez-vous|partager$|publicité$|commentaires?$)`,
	`(lee también|leer más|te puede interesar|ver también|más sobre|noticias relacionadas|suscríb[ea]te|compartir$|publicidad$|comentarios?$)`,
	`(leia (também|mais)|veja também|saiba mais|assine|inscreva-se|compartilhe?$|publicidade$)`,
	`(leggi anche|potrebbe interessarti|leggi tutto|vedi anche|iscriviti|condividi$|pubblicità$|commenti$)`,
	`(lees (ook|meer|verder)|meer over|schrijf je in|abonneer|deel dit|advertentie$|reacties$)`,
	`(czytaj (też|także|więcej)|zobacz (też|także)|zapisz się|udostępnij|reklama$|komentarze$)`,
	`(читайте (также|ещё)|читать далее|смотрите также|подпи(шитесь|саться)|поделиться|реклама$|комментарии$)`,
	`(läs (också|mer|även)|prenumerera|dela$|annons$|ayrıca (okuyun|bakınız)|ilgili haberler|abone ol|paylaş$|reklam$|yorumlar$)`,
	`(相关(阅读|文章|新闻)|延伸阅读|推荐阅读|阅读更多|订阅|分享到|責任編輯|责任编辑|関連(記事|リンク)|続きを読む|あわせて読みたい|購読|シェア|관련(기사| 기사)|더보기|구독|공유하기|무단 ?전재)`,
}, "|") + `)`)

// sources are headings under which links belong to the text.
var sources = regexp.MustCompile(`(?i)^\W*(references?|sources?|notes?|footnotes?|bibliography|works cited|further reading|external links|see also|links|resources|downloads?|quellen|literatur|einzelnachweise|weblinks|références|notes et références|bibliographie|liens externes|referencias|fuentes|bibliografía|enlaces externos|referências|fontes|note|fonti|bibliografia|collegamenti esterni|bronnen|przypisy|примечания|источники|литература|ссылки|参考(文献|资料)|脚注|出典|각주|참고 ?문헌)\W*$`)

// maxFurniture is the text, in bytes, above which no class makes a part of an
// article furniture: pages call anything anything.
const maxFurniture = 700

// trim takes out of an extracted article what the extraction leaves in: pictures'
// captions go into the pictures, teasers and calls to subscribe go altogether, and
// what stands before the first paragraph and after the last is looked at closely.
func trim(article *html.Node, title string) {
	captionsToPictures(article)
	total := len(textOf(article, true))
	dropFurniture(article, min(maxFurniture, total/4))
	blocks := blocksOf(article)
	first, last := -1, -1
	kept := false // a heading of sources was seen after the last paragraph
	for i, b := range blocks {
		if b.isProse() && !b.isTeaser() && !b.isHeading() || b.in(atom.Pre) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return
	}
	var head *block // a heading nothing was kept under so far
	for i, b := range blocks {
		switch {
		case b.in(atom.Pre, atom.Dl, atom.Details), b.in(atom.Table) && i >= first && !b.isTeaser():
			head = nil
		case b.isTeaser():
			b.drop()
		case i < first:
			if b.isLead(title) {
				continue
			}
			b.drop()
		case b.isHeading():
			if i > last && sources.MatchString(b.text) {
				kept = true
			} else if i > last && head != nil && !kept {
				head.drop()
			}
			head = b
		case i > last && !kept && (b.linked() >= 0.5 || !b.sentence() && b.in(atom.Li) && b.links > 0):
			b.drop()
		default:
			head = nil
		}
	}
	if head != nil && !kept {
		head.drop()
	}
}

// isTeaser reports whether a block leads away from the article.
func (b *block) isTeaser() bool {
	if b.in(atom.Pre, atom.Code) || b.isHeading() && sources.MatchString(b.text) {
		return false
	}
	return len(b.text) < 400 && teasers.MatchString(b.text) && (b.linked() > 0.2 || len(b.text) < 250) ||
		b.linked() > 0.9 && shouts(b.text)
}

// isLead reports whether a block before the first paragraph belongs to the text.
func (b *block) isLead(title string) bool {
	if b.isHeading() {
		return !strings.EqualFold(b.text, title)
	}
	if b.linked() >= 0.5 || strings.EqualFold(b.text, title) {
		return false
	}
	return b.sentence() || len(b.text) >= prose/2 && b.in(atom.P) || b.in(atom.Li, atom.Blockquote, atom.Table) && b.links == 0
}

func dropFurniture(root *html.Node, limit int) {
	for c := root.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.ElementNode && c.DataAtom != atom.A && (furniture.MatchString(attr(c, "class")) || furniture.MatchString(attr(c, "id"))) && len(textUpTo(c, limit)) < limit && find(c, isPicture) == nil && find(c, isPre) == nil {
			root.RemoveChild(c)
		} else {
			dropFurniture(c, limit)
		}
		c = next
	}
}

func isPicture(n *html.Node) bool { return n.DataAtom == atom.Img }
func isPre(n *html.Node) bool     { return n.DataAtom == atom.Pre || n.DataAtom == atom.Table }

// maxCaption is the longest caption, in bytes, that goes into its picture.
const maxCaption = 600

// maxNear is how many nodes around a caption are looked at for its picture.
const maxNear = 500

// captionsToPictures makes the caption of a picture its text, which says more than
// what stands there for those who can't see it, and takes out captions whose
// picture is not there.
func captionsToPictures(root *html.Node) {
	var found []*html.Node
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.DataAtom == atom.Figcaption || (captions.MatchString(attr(n, "class")) && find(n, isPicture) == nil) {
			found = append(found, n)
		}
	}
	for _, n := range found {
		text := textUpTo(n, maxCaption+1)
		if n.Parent == nil || len(text) > maxCaption || find(n, isPre) != nil || n.DataAtom != atom.Figcaption && find(n, func(d *html.Node) bool { return d.DataAtom == atom.Figcaption }) != nil {
			continue
		}
		holder := n.Parent
		picture := findNear(holder, maxNear, isPicture)
		for up := 0; picture == nil && up < 2 && holder.Parent != nil && holder != root && len(textUpTo(holder.Parent, 2*maxCaption)) < 2*maxCaption; up++ {
			holder = holder.Parent
			picture = findNear(holder, maxNear, isPicture)
		}
		if picture == nil && n.DataAtom == atom.Figcaption && findNear(holder, maxNear, isPre) != nil {
			continue // of a table or a listing
		}
		if picture != nil && text != "" {
			setAttr(picture, "alt", joinCaption(attr(picture, "data-caption"), text))
			setAttr(picture, "data-caption", attr(picture, "alt"))
		}
		n.Parent.RemoveChild(n)
	}
}

func joinCaption(a, b string) string {
	if a == "" || strings.Contains(b, a) {
		return b
	}
	if strings.Contains(a, b) || len(a) > 2*maxCaption {
		return a
	}
	return a + " " + b
}

func setAttr(n *html.Node, name, value string) {
	for i := range n.Attr {
		if n.Attr[i].Key == name {
			n.Attr[i].Val = value
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: name, Val: value})
}

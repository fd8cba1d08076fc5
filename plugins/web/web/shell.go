package web

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Statuses of pages whose body was not read.
const (
	consentWall = "blocked_by_consent_wall"
	needsJS     = "js_required"
	emptyPage   = "empty"
)

const (
	// shellText is the text of its own, in characters, below which a page may be a
	// shell. Of real articles the shortest has about twice as much.
	shellText = 200
	// consentText is the longest text, in bytes, that is taken for a request for
	// consent; a page about cookies is longer.
	consentText = 4000
	// consentShare is the most bytes of such a request for each of its words.
	consentShare = 110
	// challengeText is the longest text of a page that only checks its visitor.
	challengeText = 1500
)

// consentTopics are what requests for consent speak of, each in the larger
// languages of the web: cookies, privacy, partners, purposes, consent.
var consentTopics = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\bcookies?|クッキー|쿠키|куки|cookie-|ملفات تعريف الارتباط|الكوكيز|עוגיות|קובצי cookie|คุกกี้|evästee|eväste|informasjonskapsl|slapuk|sīkdat|küpsis|piškot|kolačić|sušenk|\bsüti|çerez|कुकी`),
	regexp.MustCompile(`(?i)\b(your|our|user|online) privacy|privacy (policy|notice|statement|preference|choices|settings)|personal (data|information)|datenschutz|personenbezogen|privatsphäre|confidentialité|vie privée|données (à caractère )?personnel|datos personales|privacidad|dados pessoais|dati personali|la tua privacy|persoonsgegevens|privacy(beleid|verklaring)|uw privacy|prywatnoś|dan(e|ych) osobow|soukrom|osobní(ch)? údaj|súkrom|персональны|конфиденциальн|integritet|personuppgift|personvern|person(data|oplysning)|privatliv|yksityisyy|tietosuoj|adatvéd|confidențialitat|date(lor|le)? (cu caracter )?personal|kişisel veri|gizlili|απόρρητο|προσωπικ|隐私|隱私|個人(資料|情報)|个人信息|プライバシー|개인정보|خصوصي|פרטיות|ความเป็นส่วนตัว|ข้อมูลส่วนบุคคล`),
	regexp.MustCompile(`(?i)\b(our|and|with|advertising|trusted|selected) (\d+ |\w+ )?partners|vendors|third[- ]part(y|ies)|\bpartnern?\b|drittanbieter|\bdritte|partenaires|\btiers\b|proveedores|\bterceros|nuestros socios|parceiros|terceiros|fornitori|terze parti|i nostri partner|\bderden\b|leverancier|partnerz|podmiot|partne(ři|ry|ri)|партн[её]р|треть(и|е)|tredjepart|kolmannen|kumppan|harmadik|partenerii|ortaklar|üçüncü taraf|συνεργάτ|合作(伙伴|夥伴)|第三方|パートナー|第三者|파트너|제3자|شركا|צד שלישי|שותפ|บุคคลที่สาม|พันธมิตร`),
	regexp.MustCompile(`(?i)analy[sz]e|analytics|personali[sz]|\b(ads?|advertis(ing|ements?))\b|site (traffic|usage|navigation)|(similar|tracking) technolog|\bexperience\b|your preferences|\bwerbung|personalisier|zugriffe|webseite|publicité|mesure|audience|personnalis|publicidad|anuncios|análisis|analizar|personalizar|analisar|annunci|pubblicit|analizza|advertenties|verkeer|websiteverkeer|reklam|treści|obsah|návštěvn|реклам|контент|аналит|annons|innehåll|trafik|annonse|innhold|indhold|mainon|sisältö|hirdet|tartalo|conținut|traficul|içerik|deneyim|διαφημ|περιεχόμεν|εμπειρία|广告|流量|廣告|広告|コンテンツ|体験|体验|體驗|광고|콘텐츠|경험|إعلان|تجرب|מודע|חוויי|โฆษณา|ประสบการณ์`),
	regexp.MustCompile(`(?i)\bconsent|legitimate interest|\b(gdpr|ccpa|dsgvo|rgpd|kvkk)\b|\b(i|you|to) agree\b|we (use|value|care about)\b|einwillig|zustimm|verwende[nt]|(nous|on) utilis|consent(ement|imiento|imento)|intérêts? légitime|interés legítimo|interesse (legítimo|legittimo)|utili[zs]amos|usamos|utilizziamo|consenso|toestemming|gerechtvaardigd|gebruik(en|t)|zgod[aęy]|uzasadnion|używamy|korzysta|souhlas|súhlas|používá|соглас|используе|samtyck|samtykke|använder|bruker|bruger|suostum|käytämme|hozzájárul|használ|consimțăm|folosi|onay|rıza|kullan|συγκατάθεση|συναίνεση|χρησιμοποι|同意|使用|利用|사용|동의|نستخدم|موافق|הסכמ|משתמש|ยินยอม|ใช้`),
}

// decision is what buttons of such requests say.
var decision = regexp.MustCompile(`(?i)(^|[\s\pP])(accept|agree|allow (all|cookies)|got it|i understand|ok(ay)?$|reject|decline|refuse|deny|manage (cookies?|preferences|options|choices|settings|consent)|(cookie|privacy|consent) (settings|preferences|options|choices)|only necessary|essential|continue without|do not sell|akzeptier|alle[ns]? (akzeptieren|zulassen|annehmen)|zustimm|einverstanden|ablehn|einstellungen|nur notwendige|accepter|j['’]accepte|tout (accepter|refuser)|refuser|paramétr|continuer sans|aceptar|acepto|rechazar|aceitar|aceito|rejeitar|recusar|accett|rifiut|accepteren|akkoord|weiger|akcept|zgadzam|odrzu|přijmout|souhlasím|odmítn|prijať|súhlasím|принять|принимаю|согласен|соглас|отклон|godkänn|acceptera|avvisa|godta|aksepter|avslå|afvis|tillad|hyväksy|hylkää|elfogad|elutasít|refuz|kabul|reddet|tamam$|αποδοχή|αποδέχομαι|απόρριψη|接受|同意|拒绝|拒絕|許可|拒否|承諾|수락|동의|거부|قبول|أوافق|رفض|קבל|אישור|דחה|ยอมรับ|ปฏิเสธ)`)

// challenge is what pages say that only check whether a visitor runs scripts.
var challenge = regexp.MustCompile(`(?i)(enable|activate|turn on|requires?|needs?|without|allow)\W+(\w+\W+){0,3}java-?script|java-?script (is|must be|has to be|seems to be|appears to be|to be) (\w+ ){0,2}(disabled|enabled|required|off|turned)|checking (if the site connection is secure|your browser)|just a moment|verify(ing)? (that )?you are (a )?human|ddos protection by|attention required|(please|bitte) (aktivieren|activer|wait while)|javascript (aktivieren|deaktiviert|ist erforderlich)|activ(er|ez|ar|e|a|ate) (le |el |o )?javascript|abilita(re)? javascript|включите javascript|javascript (inschakelen|włącz)|włącz.{0,20}javascript|启用 ?javascript|javascript ?を有効|자바스크립트|javascript를`)

// wordsConsent reports whether a text speaks of what requests for consent do.
func wordsConsent(text string) bool {
	if len(text) > consentText || len(text) < 20 {
		return false
	}
	cookies := consentTopics[0].MatchString(text)
	if !cookies && !consentTopics[1].MatchString(text) {
		return false
	}
	topics, words := 0, 0
	for _, re := range consentTopics {
		if n := len(re.FindAllStringIndex(text, -1)); n > 0 {
			topics, words = topics+1, words+n
		}
	}
	return (topics >= 4 || topics >= 3 && cookies || topics >= 2 && cookies && len(text) < 300) && words*consentShare >= len(text)
}

func canDecide(root *html.Node) bool { return find(root, decides) != nil }

// decides reports whether n is something to press that agrees or declines.
func decides(n *html.Node) bool {
	switch {
	case n.DataAtom == atom.Input:
		return decision.MatchString(attr(n, "value"))
	case n.DataAtom == atom.Button, n.DataAtom == atom.A, attr(n, "role") == "button":
		text := textUpTo(n, 120) + attr(n, "aria-label") + attr(n, "title")
		return len(text) < 120 && decision.MatchString(text)
	}
	return false
}

// stripConsent removes requests for consent, known by their names or by what they
// say, and reports whether there was one.
func stripConsent(root *html.Node) bool {
	found := false
	for c := root.FirstChild; c != nil; {
		next := c.NextSibling
		if isConsent(c) && len(textOf(c, true)) <= 4*consentText {
			root.RemoveChild(c)
			found = true
		} else if stripConsent(c) {
			found = true
		}
		c = next
	}
	return found
}

// maxAnswers is how many things to press are looked at for what they answer.
const maxAnswers = 300

// stripWorded removes requests for consent that only their words tell: around each
// thing that agrees or declines, the smallest element that asks for it.
func stripWorded(root *html.Node) (found bool) {
	var answers []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && decides(n) {
			if answers = append(answers, n); len(answers) == maxAnswers {
				break
			}
		}
	}
	seen := map[*html.Node]bool{}
	for _, n := range answers {
		for p := n.Parent; p != nil && p.Parent != nil; p = p.Parent {
			if p.DataAtom == atom.Body || p.DataAtom == atom.Article || p.DataAtom == atom.Main || p.DataAtom == atom.Pre || seen[p] {
				break
			}
			seen[p] = true
			text := textUpTo(p, consentText+1)
			if len(text) > consentText {
				break
			}
			if wordsConsent(text) {
				p.Parent.RemoveChild(p)
				found = true
				break
			}
		}
	}
	return found
}

// shellStatus judges a page by its own text, of whose characters all there were
// before requests for consent went, and by what its scripts and these requests are.
func shellStatus(own string, all, scripts int, walled, asks bool) string {
	n := utf8.RuneCountInString(own)
	switch {
	case n >= shellText && asks && len(own) <= consentText:
		return consentWall
	case n >= shellText && scripts > 0 && len(own) <= challengeText && challenge.MatchString(own):
		return needsJS
	case n >= shellText:
		return ""
	case (walled || asks) && all > 0:
		return consentWall
	case scripts > 0:
		return needsJS
	case n == 0:
		return emptyPage
	}
	return "" // a short page is a page
}

func countScripts(root *html.Node) int {
	n := 0
	for d := range root.Descendants() {
		if d.DataAtom == atom.Script {
			switch strings.ToLower(attr(d, "type")) {
			case "", "module", "text/javascript", "application/javascript":
				n++
			}
		}
	}
	return n
}

package web

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requests for consent as sites word them, with their buttons.
var asked = map[string][]string{
	"en": {"We value your privacy. We and our 845 partners store and access information on a device, such as cookies, and process personal data for personalised ads and content, ad measurement and audience insights. You can change your choices at any time.", "Accept all", "Manage options"},
	"e2": {"This website uses cookies to ensure you get the best experience on our website.", "Got it!"},
	"e3": {"By clicking “Accept All Cookies”, you agree to the storing of cookies on your device to enhance site navigation, analyze site usage, and assist in our marketing efforts.", "Accept All Cookies", "Reject All", "Cookie Settings"},
	"de": {"Wir und unsere Partner verwenden Cookies und ähnliche Technologien, um Inhalte und Anzeigen zu personalisieren und die Zugriffe auf unsere Website zu analysieren. Mit Ihrer Einwilligung verarbeiten wir personenbezogene Daten.", "Alle akzeptieren", "Ablehnen", "Einstellungen"},
	"fr": {"Avec votre accord, nos partenaires et nous utilisons des cookies pour stocker et accéder à des données personnelles, afin de mesurer l’audience et d’afficher de la publicité personnalisée.", "Accepter et fermer", "Continuer sans accepter"},
	"es": {"Nosotros y nuestros socios utilizamos cookies para almacenar y acceder a datos personales con el fin de mostrar publicidad y contenido personalizados y analizar el tráfico.", "Aceptar", "Rechazar"},
	"pt": {"Nós e os nossos parceiros usamos cookies para guardar dados pessoais, mostrar anúncios personalizados e analisar o tráfego deste site.", "Aceitar tudo", "Rejeitar"},
	"it": {"Noi e i nostri partner utilizziamo i cookie per archiviare dati personali, mostrare annunci personalizzati e analizzare il traffico. Puoi negare il consenso in ogni momento.", "Accetta", "Rifiuta"},
	"nl": {"Wij en onze partners gebruiken cookies om persoonsgegevens te verwerken, advertenties te personaliseren en het websiteverkeer te analyseren.", "Akkoord", "Weigeren"},
	"pl": {"My i nasi partnerzy używamy plików cookie, aby przetwarzać dane osobowe, dopasować treści i reklamy oraz analizować ruch w witrynie. Możesz wyrazić zgodę.", "Akceptuję", "Odrzuć"},
	"cs": {"My a naši partneři používáme soubory cookie, abychom mohli zpracovávat osobní údaje, zobrazovat reklamy a analyzovat návštěvnost.", "Přijmout vše", "Odmítnout"},
	"sv": {"Vi och våra partner använder cookies för att behandla personuppgifter, anpassa innehåll och annonser och analysera trafiken.", "Godkänn alla", "Avvisa"},
	"da": {"Vi og vores partnere bruger cookies til at behandle persondata, tilpasse indhold og annoncer og analysere trafikken. Du kan give samtykke her.", "Tillad alle", "Afvis"},
	"no": {"Vi og våre partnere bruker informasjonskapsler for å behandle persondata, tilpasse innhold og annonser.", "Godta alle", "Avslå"},
	"fi": {"Me ja kumppanimme käytämme evästeitä henkilötietojen käsittelyyn, sisällön ja mainonnan kohdentamiseen. Tarvitsemme suostumuksesi.", "Hyväksy kaikki", "Hylkää"},
	"hu": {"Mi és partnereink sütiket használunk a személyes adatok kezeléséhez, a tartalmak és hirdetések személyre szabásához. A hozzájárulás bármikor visszavonható.", "Elfogadom", "Elutasítom"},
	"ro": {"Noi și partenerii noștri folosim cookie-uri pentru a prelucra date personale, a afișa publicitate și conținut personalizat și a analiza traficul.", "Accept", "Refuz"},
	"tr": {"Biz ve ortaklarımız kişisel verileri işlemek, içerik ve reklamları kişiselleştirmek için çerez kullanıyoruz.", "Kabul et", "Reddet"},
	"el": {"Εμείς και οι συνεργάτες μας χρησιμοποιούμε cookies για την επεξεργασία προσωπικών δεδομένων, διαφημίσεις και περιεχόμενο. Δώστε τη συγκατάθεσή σας.", "Αποδοχή", "Απόρριψη"},
	"ru": {"Мы и наши партнёры используем файлы cookie, чтобы обрабатывать персональные данные, показывать рекламу и анализировать посещаемость.", "Принять", "Отклонить"},
	"zh": {"我们和我们的合作伙伴使用 Cookie 来处理个人信息、展示个性化广告和内容，并分析流量。请阅读我们的隐私政策。", "接受全部", "拒绝"},
	"ja": {"当サイトおよびパートナーは、クッキーを使用して個人情報を処理し、広告やコンテンツをお客様に合わせて表示します。プライバシーポリシーをご覧ください。", "同意する", "拒否"},
	"ko": {"당사와 파트너는 쿠키를 사용하여 개인정보를 처리하고 맞춤 광고와 콘텐츠를 제공합니다. 동의해 주세요.", "모두 수락", "거부"},
	"ar": {"نحن وشركاؤنا نستخدم ملفات تعريف الارتباط لمعالجة البيانات وعرض إعلانات مخصصة وفق سياسة الخصوصية.", "قبول الكل", "رفض"},
	"he": {"אנחנו והשותפים שלנו משתמשים בקובצי cookie (עוגיות) כדי להציג מודעות ולשפר את הפרטיות שלך. נדרשת הסכמה.", "אישור", "דחה"},
	"th": {"เราและพันธมิตรใช้คุกกี้เพื่อประมวลผลข้อมูลส่วนบุคคลและแสดงโฆษณา โปรดให้ความยินยอม", "ยอมรับ", "ปฏิเสธ"},
}

func request(language string) string {
	words := asked[language]
	out := "<p>" + words[0] + "</p>"
	for _, b := range words[1:] {
		out += "<button>" + b + "</button>"
	}
	return out
}

var (
	compound = regexp.MustCompile(`[^\s>+~]+`)
	part     = regexp.MustCompile(`^([a-zA-Z][\w-]*)|#((?:[\w-]|\\.)+)|\.((?:[\w-]|\\.)+)|\[([\w:-]+)(?:[*^$~|]?=["']?([^"'\]]*)["']?)?[^\]]*\]|::?[\w-]+(?:\([^)]*\))?`)
)

// elementFor writes an element that a CSS selector matches, around content.
func elementFor(selector, content string) string {
	selector, _, _ = strings.Cut(selector, ",")
	steps := compound.FindAllString(selector, -1)
	slices.Reverse(steps)
	for i, step := range steps {
		tag, attrs, classes := "div", "", ""
		for _, m := range part.FindAllStringSubmatch(step, -1) {
			switch {
			case m[1] != "":
				tag = m[1]
			case m[2] != "":
				attrs += fmt.Sprintf(" id=%q", m[2])
			case m[3] != "":
				classes += m[3] + " "
			case m[4] != "":
				attrs += fmt.Sprintf(` %s="%s"`, m[4], html.EscapeString(m[5]))
			}
		}
		switch tag {
		case "html", "body": // they are there
			continue
		case "script", "iframe", "style", "link", "img", "input", "meta", "noscript", "template": // hold no text
			tag = "div"
		case "button", "a", "p", "span", "label", "h1", "h2", "h3", "ul", "li", "svg", "path", "nav", "main", "article", "header", "footer", "table", "td", "tr":
			if i == 0 {
				content = fmt.Sprintf("<%s%s class=%q>%s</%s>", "div", attrs, classes, content, "div")
				continue
			}
			tag = "div"
		}
		content = fmt.Sprintf("<%s%s class=%q>%s</%s>", tag, attrs, classes, content, tag)
	}
	return content
}

// Requests for consent as the managers of the web make them. Alone on a page they
// are never read as the page; on an article they never hide it.
func TestConsentManagers(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(pagesDir(t), "consent", "autoconsent_selectors.json"))
	if err != nil {
		t.Skip("no selectors of consent managers to test with: " + err.Error())
	}
	var managers map[string]struct{ Detect, Prehide []string }
	if err := json.Unmarshal(raw, &managers); err != nil {
		t.Fatal(err)
	}
	languages := make([]string, 0, len(asked))
	for l := range asked {
		languages = append(languages, l)
	}
	slices.Sort(languages)
	names := make([]string, 0, len(managers))
	for n := range managers {
		names = append(names, n)
	}
	slices.Sort(names)
	pages, shown := 0, 0
	for i, name := range names {
		for _, selector := range append(managers[name].Detect, managers[name].Prehide...) {
			i++
			language := languages[i%len(languages)]
			wall := elementFor(selector, request(language))
			pages++
			for variant, page := range map[string]string{
				"alone":         wall,
				"with scripts":  `<div id="root"></div>` + wall + `<script src="/a.js"></script>`,
				"with a header": `<header><a href="/">The Daily Ship</a><nav><a href="/n">News</a></nav></header>` + wall + `<footer>© The Daily Ship</footer>`,
			} {
				if doc := convertHTML("<html><head><title>News</title></head><body>"+page+"</body></html>", here); doc.status != consentWall {
					t.Errorf("%s, %s, %s, %s: status %q", name, selector, language, variant, doc.status)
				}
			}
			doc := convertHTML("<html><head><title>News</title></head><body>"+wall+"<main><h1>News</h1>"+strings.Repeat("<p>"+sentences+"</p>", 5)+"</main></body></html>", here)
			if doc.status != "" || !strings.Contains(doc.markdown, "nobody on deck") {
				t.Errorf("%s, %s, %s: an article behind it is not read: %q", name, selector, language, doc.status)
			}
			if strings.Contains(doc.markdown, asked[language][0][:40]) {
				shown++
			}
		}
	}
	t.Logf("%d managers, %d selectors; the request stays in %d articles", len(names), pages, shown)
	if shown*50 > pages {
		t.Errorf("the request for consent stays in %d of %d articles", shown, pages)
	}
}

// Without a name that anybody knows, the words decide.
func TestConsentByWords(t *testing.T) {
	for language := range asked {
		for name, page := range map[string]string{
			"unknown name": `<div class="x1 y2">` + request(language) + `</div>`,
			"no wrapper":   request(language),
			"custom":       `<x-dialog><div>` + request(language) + `</div></x-dialog>`,
		} {
			if doc := convertHTML("<html><body>"+page+"</body></html>", here); doc.status != consentWall {
				t.Errorf("%s, %s: status %q", language, name, doc.status)
			}
		}
	}
	for name, page := range map[string]string{
		"a page about cookies": "<h1>Cookie policy</h1>" + strings.Repeat("<p>We use cookies and similar technologies. A cookie is a small file that a site stores; third parties may read it, and your personal data with it, unless you decline.</p>", 30) + `<a href="#">Manage cookies</a>`,
		"a recipe":             "<h1>Cookies</h1><p>" + strings.Repeat("Mix butter, sugar and flour, and bake the cookies until they are brown. ", 5) + `</p><button>Accept the challenge</button>`,
		"a short notice":       "<p>The office is closed on Monday.</p>",
	} {
		if doc := convertHTML("<html><body>"+page+"</body></html>", here); doc.status != "" {
			t.Errorf("%s is taken for %s", name, doc.status)
		}
	}
}

// The empty pages that front-end frameworks send before their scripts have run.
func TestFrameworkShells(t *testing.T) {
	const script = `<script type="module" src="/assets/index-4f2a.js"></script>`
	const noscript = `<noscript>You need to enable JavaScript to run this app. ` + sentences + `</noscript>`
	for name, body := range map[string]string{
		"React":          noscript + `<div id="root"></div>` + script,
		"Vue":            `<noscript><strong>We're sorry but app doesn't work properly without JavaScript enabled.</strong></noscript><div id="app"></div>` + script,
		"Angular":        `<app-root></app-root><script src="runtime.js" defer></script>`,
		"Angular loads":  `<app-root><div class="loader">Loading…</div></app-root><script src="main.js"></script>`,
		"Svelte":         `<div style="display: contents"><div id="svelte"></div></div>` + script,
		"SvelteKit":      `<div style="display: contents"><script>{ __sveltekit = {base: ""}; import("/_app/start.js") }</script></div>`,
		"Next":           `<div id="__next"></div><script id="__NEXT_DATA__" type="application/json">{"props":{"text":"` + sentences + `"}}</script><script src="/_next/static/chunks/main.js" defer></script>`,
		"Next streaming": `<div hidden id="S:0"><p>` + strings.Repeat(sentences, 3) + `</p></div><script>self.__next_f=[]</script>`,
		"Nuxt":           `<div id="__nuxt"></div><div id="teleports"></div><script>window.__NUXT__={}</script>`,
		"Gatsby":         `<div id="___gatsby"><div tabindex="-1" id="gatsby-focus-wrapper"></div></div><script src="/app.js"></script>`,
		"Ember":          `<div id="ember-basic-dropdown-wormhole"></div><script src="/assets/vendor.js"></script><script src="/assets/app.js"></script>`,
		"Preact":         `<div id="app"></div><script nomodule src="/polyfills.js"></script>` + script,
		"Solid":          `<div id="root"></div>` + script,
		"Qwik":           `<div q:container="paused"></div><script>q</script>`,
		"Astro":          `<astro-island client="only" component-url="/App.js"></astro-island>` + script,
		"Lit":            `<my-app><template shadowrootmode="open"><slot></slot></template></my-app>` + script,
		"Polymer":        `<shop-app unresolved>SHOP</shop-app>` + script,
		"Blazor":         `<div id="app"><svg class="loading-progress"></svg><div class="loading-progress-text"></div></div><div id="blazor-error-ui">An unhandled error has occurred. <a href="">Reload</a></div><script src="_framework/blazor.webassembly.js"></script>`,
		"Flutter":        `<script src="flutter_bootstrap.js" async></script>`,
		"Meteor":         `<div id="react-target"></div><script type="text/javascript" src="/app.js?meteor_js_resource=true"></script>`,
		"Remix SPA":      `<div id="root"><p>Loading...</p></div><script>window.__remixContext={}</script>`,
		"skeleton":       `<header><h1>Shop</h1><nav><a href="/">Home</a></nav></header><div id="app" aria-busy="true"><div class="skeleton"></div></div><footer>© Shop</footer>` + script,
		"Knockout":       `<div data-bind="template: 'main'"></div><script type="text/html" id="main"><p>` + sentences + `</p></script><script src="/ko.js"></script>`,
		"AngularJS":      `<div ng-app="app"><div ng-view></div></div><script src="/angular.js"></script>`,
		"hidden text":    `<div id="root"></div><div style="display:none">` + strings.Repeat(sentences, 4) + `</div>` + script,
		"asks for it":    `<div id="root"><h1>JavaScript is disabled</h1><p>To use this site, please enable JavaScript in the settings of your browser and load the page again. ` + sentences + `</p></div>` + script,
		"a text beside":  `<div id="react-root"></div><noscript><h1>JavaScript is disabled</h1></noscript><div><p>Something went wrong, but don't fret. ` + sentences + sentences + `</p></div>` + script,
		"an old browser": `<div id="root"></div><div class="old"><p>Your browser is not supported. ` + sentences + ` Load the page in a newer one: Chrome, Firefox, Safari and Edge of the last two years are fine.</p></div>` + script,
		"a check":        `<h1>Just a moment...</h1><p>Verify you are human by completing the action below. Example needs to review the security of your connection before proceeding, which can take a few seconds; then you go on by yourself to the page you have asked for.</p>` + script,
	} {
		doc := convertHTML("<!doctype html><html><head><title>App</title><meta name=description content=\""+sentences+"\"></head><body>"+body+"</body></html>", here)
		if doc.status != needsJS {
			t.Errorf("%s: status %q, read as\n%s", name, doc.status, doc.markdown)
		}
	}
	for name, body := range map[string]string{
		"rendered on the server": `<div id="__next"><main><h1>Log</h1><p>` + strings.Repeat(sentences, 3) + `</p></main></div><script src="/_next/main.js"></script>`,
		"a widget beside":        `<h1>Log</h1><p>` + strings.Repeat(sentences, 3) + `</p><div id="root"></div>` + script,
		"about browsers":         `<h1>Log</h1><p>Your browser is not supported. ` + strings.Repeat(sentences, 3) + `</p>` + script,
		"about JavaScript":       `<h1>How to enable JavaScript</h1>` + strings.Repeat("<p>"+sentences+" Some sites ask you to enable JavaScript; this is how.</p>", 12) + script,
	} {
		if doc := convertHTML("<html><body>"+body+"</body></html>", here); doc.status != "" {
			t.Errorf("%s is taken for %s", name, doc.status)
		}
	}
}

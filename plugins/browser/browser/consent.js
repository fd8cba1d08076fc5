(() => {
  // Clicks a consent banner away: refusing where there is a way to refuse, and only
  // else accepting. Returns what was clicked.
  const refuse = ["reject all", "reject", "refuse all", "refuse", "decline all", "decline", "deny", "deny all", "only necessary", "only essential", "necessary only", "essential only",
    "use necessary cookies only", "continue without accepting", "continue without agreeing", "do not consent", "disagree", "no thanks",
    "alle ablehnen", "ablehnen", "nur notwendige", "nur erforderliche", "nur essenzielle", "notwendige cookies", "einwilligung ablehnen", "weiter ohne zustimmung",
    "tout refuser", "refuser tout", "refuser", "continuer sans accepter", "je refuse", "alles weigeren", "weigeren", "alleen noodzakelijke", "alles afwijzen", "afwijzen",
    "rechazar todo", "rechazar todas", "rechazar", "solo necesarias", "rifiuta tutto", "rifiuta tutti", "rifiuta", "continua senza accettare", "recusar tudo", "rejeitar todos", "rejeitar tudo", "recusar",
    "odrzuć wszystkie", "odrzuć", "avvisa alla", "neka alla", "endast nödvändiga", "avvis alle", "bare nødvendige", "afvis alle", "kun nødvendige", "hylkää kaikki", "vain välttämättömät", "odmítnout vše", "odmítnout"];
  const accept = ["accept all", "accept", "agree", "i agree", "allow all", "allow", "got it", "ok", "okay", "continue", "understood", "alle akzeptieren", "akzeptieren", "zustimmen", "alle zulassen", "einverstanden", "verstanden",
    "tout accepter", "accepter", "j'accepte", "alles accepteren", "accepteren", "akkoord", "aceptar todo", "aceptar", "accetta tutto", "accetta", "aceitar tudo", "aceitar", "zaakceptuj wszystko", "akceptuję", "acceptera alla", "godkänn alla", "godta alle", "accepter alle", "hyväksy kaikki", "přijmout vše", "souhlasím"];
  const known = '[id*="onetrust"],[id*="cookiebot" i],[id*="didomi"],[id*="usercentrics"],[id*="truste"],[id*="sp_message"],[class*="qc-cmp"],[id*="cmp" i],[class*="cmp-" i],' +
    '[id*="consent" i],[class*="consent" i],[id*="cookie" i],[class*="cookie" i],[id*="gdpr" i],[class*="gdpr" i],[id*="privacy" i],[class*="privacy-" i]';
  const buttons = [];
  const gather = (root) => {
    for (const e of root.querySelectorAll('button,[role="button"],input[type="button"],input[type="submit"],a')) buttons.push(e);
    for (const e of root.querySelectorAll("*")) if (e.shadowRoot) gather(e.shadowRoot);
  };
  gather(document);
  const within = (e) => {
    for (let n = e; n; n = n.parentElement || (n.getRootNode() && n.getRootNode().host)) {
      if (n.nodeType !== 1 || n === document.body || n === document.documentElement) continue;
      if (n.matches(known)) return true;
      if (n.matches('dialog,[role="dialog"],[role="alertdialog"],[aria-modal="true"]') && /cookie|consent|privacy|datenschutz|einwilligung|confidentialité|privacidad/i.test(n.innerText || "")) return true;
    }
    return false;
  };
  const visible = (e) => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0 && getComputedStyle(e).visibility !== "hidden"; };
  const label = (e) => ((e.innerText || e.value || e.getAttribute("aria-label") || "").trim().toLowerCase().replace(/[\s\u00a0]+/g, " ").replace(/[.!›»→]+$/g, "").trim());
  const inside = buttons.filter((e) => visible(e) && within(e));
  for (const words of [refuse, accept]) {
    for (const exact of [true, false]) {
      for (const e of inside) {
        const l = label(e);
        if (l.length > 0 && l.length < 60 && words.some((w) => exact ? l === w : l.startsWith(w + " ") || l.startsWith(w + ","))) { e.click(); return l; }
      }
    }
  }
  return "";
})()

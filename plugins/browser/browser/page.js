(() => {
  // How the page stands: what is loaded, how much there is to read. Names of elements
  // stand before a document's own properties, so these are taken from their prototype.
  const own = (name) => Reflect.get(Document.prototype, name, document);
  const body = own("body");
  const loaded = performance.getEntriesByType("resource").length;
  const text = body ? Reflect.get(HTMLElement.prototype, "innerText", body).length : 0;
  const nodes = Document.prototype.getElementsByTagName.call(document, "*").length;
  return [own("readyState"), loaded, text, nodes].join(" ");
})()

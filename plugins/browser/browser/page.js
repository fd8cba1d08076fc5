(() => {
  // How the page stands: what is loaded, how much there is to read.
  const loaded = performance.getEntriesByType("resource").length;
  const text = document.body ? document.body.innerText.length : 0;
  const nodes = document.getElementsByTagName("*").length;
  return [document.readyState, loaded, text, nodes].join(" ");
})()

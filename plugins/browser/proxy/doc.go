// Package proxy is the only way out of the browser: a forward proxy that resolves
// names itself and dials nothing that an address guard does not admit, so neither
// a redirect nor a name that changes its mind leads into a private network.
//
// Connections come with a tag that says for which page they are. A page is opened
// and closed here, has a budget of bytes, and sees what was refused to it; what
// comes for no open page is refused.
package proxy

package client

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
)

// maxCookies is the most bytes of cookies that a session keeps, as many as servers take.
const maxCookies = 8 << 10

// cookies are those that a server has set in a session: load balancers find by one where the
// session is (mcp-remote#168). They go to no other server, as a session has one URL. It
// implements [http.CookieJar].
type cookies struct {
	mu  sync.Mutex
	jar http.CookieJar
}

// SetCookies implements [http.CookieJar]. Their paths do not count, so that each is sent and
// found to be too large: if all together are more than [maxCookies], they are forgotten.
func (c *cookies) SetCookies(u *url.URL, set []*http.Cookie) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jar == nil {
		c.jar, _ = cookiejar.New(nil) // without options there is no error
	}
	for _, cookie := range set {
		cookie.Path, cookie.Secure = "/", false
	}
	c.jar.SetCookies(u, set)
	size := 0
	for _, cookie := range c.jar.Cookies(u) {
		size += len(cookie.Name) + len(cookie.Value)
	}
	if size > maxCookies {
		c.jar = nil
	}
}

// Cookies implements [http.CookieJar].
func (c *cookies) Cookies(u *url.URL) []*http.Cookie {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jar == nil {
		return nil
	}
	return c.jar.Cookies(u)
}

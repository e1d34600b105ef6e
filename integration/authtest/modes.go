package authtest

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
)

// quiet is for errors that tests cause on purpose, such as aborted answers.
var quiet = log.New(io.Discard, "", 0)

// Status answers with a status and a short text.
func Status(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, http.StatusText(status), status)
	})
}

// HTML answers with a page, as a proxy or a login wall does.
func HTML() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>Sign in</title>")
	})
}

// JSON answers with a body that claims to be JSON.
func JSON(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

// Padded answers with JSON and white space behind it, so that the body has the
// given size.
func Padded(body string, size int) http.Handler {
	return JSON(http.StatusOK, body+strings.Repeat(" ", size-len(body)))
}

// Abort ends the connection without an answer.
func Abort() http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

// Redirect answers with a redirect.
func Redirect(status int, location string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(status)
	})
}

// Hang answers nothing until the client goes away.
func Hang() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen only after the body
		<-r.Context().Done()
	})
}

// Parrot refuses the client and repeats all that it was sent.
func Parrot() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		said := fmt.Sprint(r.Header.Get("Authorization"), " ", form.Get("client_secret"), " ",
			form.Get("subject_token"), " ", form.Get("client_assertion"), " ", string(body))
		writeError(w, http.StatusUnauthorized, "invalid_client", said)
	})
}

//go:build !unix

package secretfile

// openNow is nothing where opening a file does not wait.
const openNow = 0

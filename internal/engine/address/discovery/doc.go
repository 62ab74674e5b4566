// Package discovery keeps the fleet in line with a list of engines outside Millrace, a file or a DNS name, that
// is read again and again. Start reading at Source, then Follower.
package discovery

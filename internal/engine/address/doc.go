// Package address decides which addresses engines may have, and with which API key and TLS settings they are reached. A
// user who may add an engine makes the service send requests to any address, from within its own network; this package
// confines them to the intended addresses. It makes no connection. Rules judge an address when it is added and again
// when it is dialled, after its name is resolved. Start reading at Config, then Rules.
package address

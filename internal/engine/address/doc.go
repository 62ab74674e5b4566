// Package address says which addresses may be engines', with which API key and TLS settings they are reached.
// Whoever may add an engine makes the service send requests to an address of their choice, from within the network that
// it stands in; this package keeps them to the addresses that are meant. It makes no connection: Rules judge an address
// when it is added and again when it is dialled, by what its name means at that moment. Start reading at Config, then
// Rules.
package address

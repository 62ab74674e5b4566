// Package workerregistry lists the worker processes that are alive, with each one's share of the engines' limits and
// what it has used of them. Every worker reports itself and computes its own share: nobody assigns any. The engines are
// those of package fleet. Start reading at Registry, then Share.
package workerregistry

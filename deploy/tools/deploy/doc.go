// Package deploy tests what deploy/ has for containers and Kubernetes with those tools' own code: compose files as
// compose reads them, the chart as helm renders it, what it renders by the API's own types and the schemas of KEDA and
// the Prometheus operator. It is a module of its own, so that none of that is part of Millrace. make test-deploy runs
// it.
package deploy

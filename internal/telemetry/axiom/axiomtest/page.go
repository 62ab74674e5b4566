package axiomtest

func (s *Server) pageRoutes() {}

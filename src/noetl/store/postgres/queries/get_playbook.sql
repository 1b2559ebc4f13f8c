SELECT file, text FROM playbook WHERE digest = %s

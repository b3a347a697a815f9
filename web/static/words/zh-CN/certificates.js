// 证书的状况。与 wire/english/certificates.py 的键一一对应。

/** @type {Record<string, string>} */
export const WORDS = {
  tls_unreadable: "无法读取 {file}：{why}",
  tls_key_open: "{file}：他人可以读取此密钥：`chmod 600 {file}`",
  tls_no_certificate: "{file}：证书不可用：{why}。文件应为 PEM 格式，主控自己的证书在最前",
  tls_no_key: "{file}：密钥不可用：{why}。文件应含一个 PEM 格式的私钥",
  tls_key_locked: "{file}：密钥有口令，而没有人输入：`openssl pkey -in {file} -out NEW` 可写出无口令的密钥",
  tls_key_of_another: "{key} 不是 {cert} 中第一张证书 {subject} 的密钥：请指定对应的密钥，或把主控自己的证书放在最前",
  tls_not_begun: "{cert}：{subject} 的证书到 {begins} 才生效：请检查本机时钟，或换用现在有效的证书",
  tls_ended: "{cert}：{subject} 的证书已于 {ends} 过期：请换上新的证书及其密钥",
  tls_ends_soon: "{cert}：{subject} 的证书将于 {ends} 过期，还有 {days} 天：请换上新的证书及其密钥；运行中的主控会采用",
  tls_not_for_servers: "{cert}：{subject} 的证书不可用于服务器（扩展密钥用法）：请申请可用的证书",
  tls_no_names: "{cert}：{subject} 的证书没有写明主机名（缺少 subject alternative names），客户端不会信任：请申请含有主控名称的证书",
  tls_chain_incomplete: "{cert}：缺少签发 {subject} 的 {issuer} 的证书：请附上它及其上级，直至根证书",
  tls_chain_wrong: "{cert}：证书链在 {subject} 处不成立：{why}",
  tls_no_authority: "{cert}：{subject} 之上的机构既不在文件中，也不被本系统信任，因此客户端会固定 {subject}：请附上该机构的证书，否则换发机构后客户端将无法连接",
  tls_self_signed: "{cert}：{subject} 的证书是自签的，每次更新都须告知所有客户端和代理：请由实验室的机构签发，或使用会自动更新的 `\"tls\": \"auto\"`",
  tls_other_names: "{cert}：证书用于 {names}，与本机的名称（{called}）都不符：客户端和代理须以前者称呼主控",
  tls_other_authority: "{cert}：新证书并非由客户端和代理所固定的机构（{old}）签发，会使它们无法连接：请换用同一机构的证书；或重启主控使其采用，并告知新的指纹（--ca-fingerprint {new}；代理：--authority）",
  tls_authority_changed: "端口证书的机构现为 {new}，原为 {old}：须告知固定了原机构的客户端和代理（--ca-fingerprint；代理：--authority）",
  tls_refused: "没有采用新证书，原证书使用至 {ends}：{because:; }",
  tls_not_renewed: "主控自己的证书将于 {ends} 过期，未能更新：{why}",
  tls_key_in_reach: "{nodes:subject} 上的任务以主控自己的账户或 root 运行，可以读取端口证书的密钥：请让任务以其他账户运行（登记表中 `\"driver\": \"ssh\", \"ip\": \"127.0.0.1\", \"user_name\": OTHER`），或以 `desktop_client.local_nodes`: `allow` 表示接受",
};

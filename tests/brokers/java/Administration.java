import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Makes what administrators make of a cluster: {@code java Administration BOOTSTRAP TOPIC PASSWORD}.
 *
 * <p>Deletes TOPIC and creates it again, with ACLs, of which one is removed again, quotas, one of
 * which is removed again, a SCRAM user, and settings of brokers and topics; one is a password.
 */
final class Administration {
    private final Admin admin;

    private Administration(Admin admin) {
        this.admin = admin;
    }

    public static void main(String[] arguments) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var all = new Administration(admin);
            all.topic(arguments[1]);
            all.acls(arguments[1]);
            all.quotas();
            all.users(arguments[2]);
            all.settings(arguments[1], arguments[2]);
        }
    }

    private void topic(String name) throws Exception {
        admin.deleteTopics(List.of(name)).all().get();
        admin.createTopics(List.of(new NewTopic(name, 2, (short) 1))).all().get();
    }

    private void acls(String topic) throws Exception {
        var removed = acl(ResourceType.TOPIC, topic, PatternType.LITERAL, "User:alice",
                AclOperation.READ, AclPermissionType.ALLOW);
        admin.createAcls(List.of(
                removed,
                acl(ResourceType.TOPIC, "*", PatternType.LITERAL, "User:*",
                        AclOperation.DELETE, AclPermissionType.DENY),
                acl(ResourceType.GROUP, "g", PatternType.PREFIXED, "User:bob",
                        AclOperation.ALL, AclPermissionType.ALLOW))).all().get();
        admin.deleteAcls(List.of(removed.toFilter())).all().get();
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern,
            String principal, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
                new AccessControlEntry(principal, "*", operation, permission));
    }

    private void quotas() throws Exception {
        var user = Map.of(ClientQuotaEntity.USER, "alice");
        quota(user, "producer_byte_rate", 1048576.0);
        quota(user, "request_percentage", 12.5);
        quota(user, "producer_byte_rate", null);
        quota(Map.of(ClientQuotaEntity.IP, "127.0.0.1"), "connection_creation_rate", 80.0);
    }

    private void quota(Map<String, String> entity, String key, Double value) throws Exception {
        var operation = new ClientQuotaAlteration.Op(key, value);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                new ClientQuotaEntity(entity), List.of(operation)))).all().get();
    }

    private void users(String password) throws Exception {
        var how = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        admin.alterUserScramCredentials(
                List.of(new UserScramCredentialUpsertion("alice", how, password))).all().get();
    }

    private void settings(String topic, String password) throws Exception {
        set(ConfigResource.Type.BROKER, "1", "listener.name.other.ssl.keystore.password", password);
        set(ConfigResource.Type.BROKER, "", "log.cleaner.threads", "2");
        set(ConfigResource.Type.TOPIC, topic, "retention.ms", "77000000");
        set(ConfigResource.Type.TOPIC, topic, "retention.ms", null);
    }

    private void set(ConfigResource.Type type, String name, String key, String value)
            throws Exception {
        var operation = value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name),
                List.of(new AlterConfigOp(new ConfigEntry(key, value), operation)))).all().get();
    }
}
